"""What a standalone program has in place of the runtime: the same interface for one process, in few lines.

Nothing imports these modules: `leaven generate --standalone` writes the definitions that a program needs into it. A
comment at the end of a line says when the line, and what is indented under it, is written:

    #: if NAME          where the program has that trait; `program/traits.py` names and decides them
    #: if not NAME      where it has not
    #: used             where anything else uses this method or attribute
    #: if used NAME     where anything else uses the method or attribute of that name

So there may be several definitions of one name, of which each program gets one. The same comments may be in techniques;
`#: if figures` leaves out what draws, as no standalone program has that trait.
"""
