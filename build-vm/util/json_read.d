build-vm/util/json_read.o: src/util/json_read.c src/util/json_read.h \
 src/util/json_scan.h src/util/json_source.h
src/util/json_read.h:
src/util/json_scan.h:
src/util/json_source.h:
