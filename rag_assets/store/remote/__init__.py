"""A store on S3: a local working copy, and the objects behind it.

Everything is computed and read in the working copy, a folder as every store is one. What is missing
there is brought when it is looked for, and what is new is sent. Names are the same on both sides.
"""
