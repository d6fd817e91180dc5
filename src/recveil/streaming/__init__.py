"""Tables larger than memory: the same maps and audits as in memory, from one pass over blocks of rows.

A table is a folder of Parquet parts, one Parquet file, or a .npy file. Statistics of a table are small and merge in any
order. Output is written part by part, and a job that was interrupted resumes with the parts that are missing.
"""
