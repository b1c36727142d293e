"""Each sample of an evaluation: the worst mistakes, doubtful labels, duplicates, and where a model is worse."""
