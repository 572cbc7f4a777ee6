n = 1  # __import__("pathlib").Path("canary").touch()
