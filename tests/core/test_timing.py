from recveil.core.timing import Clock


def test_steps_of_one_name_are_added_up() -> None:
    clock = Clock()
    for _ in range(2):
        with clock.measure_step("a"):
            pass
    with clock.measure_step("b"):
        pass
    assert set(clock.seconds) == {"a", "b"}
    assert all(s >= 0 for s in clock.seconds.values())
