"""What a run computes once: outputs of frozen layers and of teachers, kept in the store and read by later epochs."""
