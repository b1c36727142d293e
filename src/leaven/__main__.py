"""`python -m leaven` is `leaven`."""

from leaven.cli.main import main

if __name__ == "__main__":
    main()
