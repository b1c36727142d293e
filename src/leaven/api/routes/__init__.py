"""The routes of the lab's API, one file per subject: each asks a process of `leaven.lab.asked`, or reads a run."""
