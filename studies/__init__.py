"""Studies: one command trains, measures and writes a page of docs; each resumes where it was stopped."""
