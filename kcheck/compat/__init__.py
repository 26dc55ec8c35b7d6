"""The Python interfaces of other tools, over kcheck's."""
