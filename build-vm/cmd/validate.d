build-vm/cmd/validate.o: src/cmd/validate.c src/cmd/cmd.h \
 src/util/json_check.h src/util/json_read.h src/util/json_scan.h \
 src/util/json_source.h src/util/log.h
src/cmd/cmd.h:
src/util/json_check.h:
src/util/json_read.h:
src/util/json_scan.h:
src/util/json_source.h:
src/util/log.h:
