"""`python -m gaussproto` is the command `gaussproto`."""

from gaussproto.cli import main

if __name__ == "__main__":
    main()
