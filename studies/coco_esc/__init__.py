"""Every method, SLAVC's ablations and other batches, on real photos and sounds: python -m studies.coco_esc"""
