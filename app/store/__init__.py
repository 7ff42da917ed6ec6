"""What is kept: tables and repositories."""
