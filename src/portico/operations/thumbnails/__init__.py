"""Thumbnails of images and PDF files, made in a process of their own."""
