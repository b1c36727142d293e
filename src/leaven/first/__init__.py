"""First recipes: what data on disk is, as values, and the recipe that fits it."""
