"""What the served models share; each file is copied beside the model that needs it."""
