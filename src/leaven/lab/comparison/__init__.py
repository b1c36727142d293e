"""Two models or recipes side by side: their answers to the same samples, what differs, their costs and layers."""
