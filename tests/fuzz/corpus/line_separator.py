#  n = __import__("pathlib").Path("canary").touch()
