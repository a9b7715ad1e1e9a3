"""Sandboxes behind the interfaces of agent frameworks: a module for each, with an extra of the same name that installs the
framework (``pip install 'rekindle[deepagents]'``). Nothing of them is imported before its module is."""
