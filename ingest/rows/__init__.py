"""Rows of files of any format, for training and for prediction."""
