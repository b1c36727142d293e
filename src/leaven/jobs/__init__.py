"""Jobs: recipes packed once and run by a coordinator, here or elsewhere, until each has ended in a true state."""
