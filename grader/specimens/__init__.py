"""What the tests that a student writes are tried on: ordinary code, some of it sound, some not."""
