"""The checks of this package, a file each; the file's name is the check's name."""
