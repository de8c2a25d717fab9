build-vm/util/json_tracks.o: src/util/json_tracks.c src/util/json_trace.h \
 src/util/json_check.h src/util/json_read.h src/util/json_scan.h \
 src/util/json_source.h
src/util/json_trace.h:
src/util/json_check.h:
src/util/json_read.h:
src/util/json_scan.h:
src/util/json_source.h:
