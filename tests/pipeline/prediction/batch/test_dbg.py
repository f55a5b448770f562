import itertools, time
from tests.pipeline.prediction.batch.test_remote_destination import *
from tests.pipeline.prediction.batch.conftest import *
def test_dbg(longer, source, google_bucket, object_store, monkeypatch, capsys):
    monkeypatch.setattr(destination, "_STALE_SECONDS", 0.0)
    for writes in range(16):
        object_store.refuse_after(writes)
        t=time.time()
        e=None
        try:
            predict_files(longer, source, google_bucket.url("out"))
        except Exception as e_:
            e=e_
        object_store.accept_all()
        with capsys.disabled():
            print(writes, round(time.time()-t,1), type(e).__name__, str(e)[-150:].replace("\n"," "))
            print("   ", google_bucket.names())
