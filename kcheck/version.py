"""The version of kcheck. Hatch reads it from here when it builds the wheel."""

__version__ = "0.1.0.dev0"
