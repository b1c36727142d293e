"""The exit codes of commands, besides 0 for success."""

RECIPE_ERROR = 1
USAGE_ERROR = 2
OUR_BUG = 70  # EX_SOFTWARE of sysexits.h
CANT_WRITE = 74  # EX_IOERR
INTERRUPTED = 130  # what shells use for Ctrl-C
