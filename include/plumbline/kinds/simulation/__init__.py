"""What a simulated provider would measure: the draws of a trial, and the rows of steps and of served requests."""
