"""The directive `report`: a real report of a made-up platform, made when the site is built and shown in a frame."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

NAME = "example-report.html"
FRAME = f'<iframe class="report" src="{NAME}" title="A report of recveil" loading="lazy"></iframe>'
LINK = f'<p><a href="{NAME}">Open the report on a page of its own.</a></p>'


class Report(SphinxDirective):
    """Write the report beside the page and show it; nothing is shown where blocks are not run."""

    def run(self) -> list[nodes.Node]:
        if not self.config.run_blocks:
            return []
        write_report(Path(self.env.app.outdir) / NAME)
        return [nodes.raw("", FRAME + LINK, format="html")]


def write_report(path: Path) -> None:
    """Audit a made-up platform on which gender leaks, and write the page."""
    import numpy as np

    import recveil as rv

    world = rv.make_world(
        n_users=800, n_items=300, n_interactions=24_000, leaks={"gender": 2.0}, rng=np.random.default_rng(0)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    rv.audit(world.taste, world.dataset.attributes["gender"], target="gender").write_html(path)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("report", Report)
    return {"parallel_read_safe": True}
