"""From two arrays to a verdict, and on to a defended table: the library without the command line."""

import recveil as rv
from recveil.core.random import make_generator


def main() -> None:
    # Any (n, d) table and any labels will do; here they come from a synthetic world in which gender leaks.
    world = rv.make_world(n_users=500, n_interactions=15_000, leaks={"gender": 2.0}, rng=make_generator(0, "world"))
    x, gender = world.taste, world.dataset.attributes["gender"].codes

    before = rv.audit(x, gender, target="gender", repeats=1, details=False)
    print("before:", before.targets["gender"].sentence)
    cloaked = rv.Sliced().fit_transform(x, gender)
    after = rv.audit(cloaked, gender, target="gender", repeats=1, details=False)
    print("after: ", after.targets["gender"].sentence)


if __name__ == "__main__":
    main()
