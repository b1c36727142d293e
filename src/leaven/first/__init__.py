"""First recipes, for `leaven new`: looks at data on disk and writes the recipe that fits it."""
