from recveil.core.progress import report_progress, track_progress


def test_without_a_listener_the_items_pass_through() -> None:
    assert list(track_progress([1, 2], "x")) == [1, 2]


def test_a_reporter_hears_of_the_work_and_only_within_its_block() -> None:
    heard = []

    def report(items, label, total):
        heard.append((label, total))
        return items

    with report_progress(report):
        assert list(track_progress(range(3), "training", 3)) == [0, 1, 2]
    list(track_progress([1], "later"))
    assert heard == [("training", 3)]
