from recveil.core.result_parts import Verdict
from recveil.report.page_parts import BADGES


def test_every_verdict_has_a_badge_and_only_no_leak_looks_safe() -> None:
    assert set(BADGES) == set(Verdict)
    assert [verdict for verdict, badge in BADGES.items() if badge.kind == "none"] == [Verdict.NONE]
    assert len({badge.word for badge in BADGES.values()}) == len(BADGES)
