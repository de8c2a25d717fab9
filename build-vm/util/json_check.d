build-vm/util/json_check.o: src/util/json_check.c src/util/json_check.h \
 src/util/json_read.h src/util/json_scan.h src/util/json_source.h
src/util/json_check.h:
src/util/json_read.h:
src/util/json_scan.h:
src/util/json_source.h:
