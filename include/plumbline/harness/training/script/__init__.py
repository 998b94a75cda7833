"""Runs a team's own training script as the worker of a run.

files        its files, fetched and hashed
process      the worker: starts the command, and writes down what it reports and what is seen of it
reports, report_files, event_files   reports in lines, in files that the script writes, and in TensorBoard's
steps        reports as steps, with their times
output       the command's output, in lines and bounded
checkpoints  checkpoints as their files show them
outside      files that the command leaves elsewhere
"""
