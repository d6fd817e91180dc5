from recveil.core.progress import reporting, track


def test_without_a_listener_the_items_pass_through() -> None:
    assert list(track([1, 2], "x")) == [1, 2]


def test_a_reporter_hears_of_the_work_and_only_within_its_block() -> None:
    heard = []

    def report(items, label, total):
        heard.append((label, total))
        return items

    with reporting(report):
        assert list(track(range(3), "training", 3)) == [0, 1, 2]
    list(track([1], "later"))
    assert heard == [("training", 3)]
