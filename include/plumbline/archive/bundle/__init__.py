"""Campaigns on the move: result documents and JSON Lines in a folder, from one archive into another.

FOLDER/manifest.json                            written last: every file's SHA-256
       campaigns/<campaign>/documents/*.json    the result documents, as they were collected
                            attempts.jsonl      of each document its SHA-256, verdict, address, time of recording and correction; the SHA-256
                                                of this file is the campaign's content hash, the same in every archive that holds the same
                            expired.jsonl       which raw evidence is kept no longer
                            <table>.jsonl       what was concluded: findings, their threads, baselines, quarantine, audit log
       ledger/<table>.jsonl                     what belongs to no single campaign: prices and their readings, snapshots, decisions and, of
                                                a whole archive, the audit log

An import makes all rows of a measurement from its document. Raw evidence stays in the result store: its URIs and SHA-256s travel.
"""

from plumbline.archive.bundle.manifest import BadBundle, ExportedCampaign, ImportedCampaign
