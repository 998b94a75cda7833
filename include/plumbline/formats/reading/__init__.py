"""What formats share: the base class of each kind of format, and helpers of their readers."""
