"""The Python interfaces of other tools, implemented with kcheck's."""
