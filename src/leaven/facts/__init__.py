"""What only torch can tell, answered as plain data by a helper process.

Nothing here is imported by the compiler: `leaven.facts.survey` and `leaven.facts.layers` are run as programs of their
own, and `leaven.catalog` reads what they wrote.
"""
