"""Run the command line with `python -m recveil`."""

from recveil.cli import main

if __name__ == "__main__":
    main()
