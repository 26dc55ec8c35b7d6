"""Checks beyond memory and barriers, compiled into the code only if they are enabled."""
