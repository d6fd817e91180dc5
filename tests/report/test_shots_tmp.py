import shutil
from pathlib import Path

from recveil.report import write_report

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu"]


def test_shots(request):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as pw:
        b = pw.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name in ("full_result", "defended_membership", "study_result"):
            path = Path(f"/tmp/shots/{name}.html")
            path.parent.mkdir(exist_ok=True)
            write_report(request.getfixturevalue(name), path)
            for width in (1200, 390):
                page = b.new_page(viewport={"width": width, "height": 900})
                page.goto(path.as_uri())
                page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
                page.screenshot(path=f"/tmp/shots/{name}-{width}.png", full_page=True)
                print(
                    name,
                    width,
                    page.evaluate(
                        "[...document.querySelectorAll('.scroll')].map(s=>[s.previousElementSibling?.innerText?.slice(0,40), s.scrollWidth, s.clientWidth]).filter(x=>x[1]>x[2])"
                    ),
                )
                page.close()
        b.close()
