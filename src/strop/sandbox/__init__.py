"""The sandbox: what a model wrote runs here, confined, and is graded by what only the supervisor knows."""
