"""Settings that `modules` reads: the task, the Trainer and the limits of DataGate."""
