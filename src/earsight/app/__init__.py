"""The web page: drop a clip, see where its sound comes from. Nothing of it leaves the machine."""
