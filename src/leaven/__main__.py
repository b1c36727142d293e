"""`python -m leaven` is `leaven`, which does not look for modules where the user stands."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # before anything else is imported: a `json.py` of the user's is not Python's

    from leaven.cli.main import main

    main()
