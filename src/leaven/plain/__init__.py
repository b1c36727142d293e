"""What a standalone program has in place of the runtime: one process, one device, in few lines.

These are ordinary modules, and no program imports them: `leaven generate --standalone` copies the functions and classes
that a program needs into it, as text. A name that is defined here takes the place of the same name elsewhere in
Leaven, also in techniques. Methods that nothing in a program calls are left out.
"""
