"""The way of a sample into training.

arguments.py   which arguments transforms draw
contents.py    a value in numbers and as pixels
area.py        which part of the original image is left
steps.py       the way of one sample through its transforms, or through a tokenizer
batches.py     the batch in which it lands, and what mixup or cutmix make of it
warnings.py    what is wrong with the data
opened.py      the data of a recipe or a run, and finding a sample in it
trace.py       all of it as one value
shown.py       that value for a terminal and as a picture
"""
