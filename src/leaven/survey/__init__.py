"""Facts that need torch, answered as plain data by a subprocess.

Nothing here is imported by the compiler: `leaven.survey.libraries` and `leaven.survey.layers` run as programs, and
`leaven.catalog` reads what they write.
"""
