"""`python -m leaven` is the command `leaven`, which does not import modules from the current folder."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # before anything else is imported: the user may have a file `json.py`

    from leaven.cli.main import main

    main()
