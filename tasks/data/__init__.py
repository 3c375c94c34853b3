"""Data of the tasks: embedded in packages, generated, or read from `data_dir`."""
