"""From two arrays to a verdict, and back to safety: the library without the command line."""

import numpy as np

from recveil import Attribute, Sliced, make_world
from recveil.audits.attribute.audit import audit
from recveil.core.random import generator


def main() -> None:
    # Any (n, d) table and any codes will do; here they come from a made-up world in which gender leaks.
    world = make_world(n_users=1_000, n_interactions=30_000, leaks={"gender": 2.0}, rng=generator(0, "world"))
    x, codes = world.taste, world.dataset.attributes["gender"].codes
    gender = Attribute("gender", codes, ("F", "M"))

    print("before:", audit(x, gender).sentence())
    cloaked = Sliced()(x, codes, rng=np.random.default_rng(0))
    print("after: ", audit(cloaked, gender).sentence())


if __name__ == "__main__":
    main()
