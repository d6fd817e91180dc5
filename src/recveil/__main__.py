"""Run the command line with `python -m recveil`."""

from recveil.cli.app import main

if __name__ == "__main__":
    main()
