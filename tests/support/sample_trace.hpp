// Holds a sample trace (a file of NKI instructions) for the tests of its reader and writer.
#pragma once

#include <string>

/// Every form of operand, argument, synchronisation and declaration, in nine instructions.
inline const std::string kSampleTrace =
    R"({"nisa":1,"target":"trn2","name":"mixed","semaphores":"explicit","cores":2,"semaphore_names":{"5":"Tensor"},"files":["k.py"],"tensors":[{"name":"x","dtype":"float32","shape":[128,512],"role":"input","data":{"generator":"normal","seed":7}}]}
{"tensor":{"name":"n","space":"hbm","dtype":"int32","shape":[1,1],"role":"input","data":{"values":[3]},"loc":"k.py:1"}}
{"tensor":{"name":"a","space":"sbuf","dtype":"float32","shape":[128,512],"address":0}}
{"tensor":{"name":"b","space":"sbuf","dtype":"bfloat16","shape":[128,4,128],"address":2048}}
{"tensor":{"name":"p","space":"psum","dtype":"float32","shape":[128,512],"address":2048}}
{"tensor":{"name":"d","space":"sbuf","dtype":"float32","shape":[64,8],"address":0,"core":1,"partition":64}}

{"i":"register_load","engine":"sync","dst":"r3","src":"n"}
{"i":"loop_begin","engine":"sync","register":"r4","start":0,"stop":"r3","step":2}
{"i":"tensor_tensor","dst":"a","data1":"p","data2":"b","op":"add","loc":"k.py:42","label":"sum \"x\"","wait":[["Tensor",">=",1],[9,"==",-1]],"post":[[6,"++"],[7,"+=",16,"@issue"],[8,"=",0,"@complete"],[8,"--","@complete"]]}
{"i":"tensor_tensor","dst":"a[0:64,::2]","data1":{"tensor":"b[0:64,0:2]","dynamic":[{"register":4,"stride":128,"limit":4}]},"data2":{"tensor":"a","partitions":64,"offset":4,"ap":[[0,2],[-1,1],[1,128]],"dtype":"float32"},"op":"max","engine":"vector"}
{"i":"tensor_tensor","dst":{"space":"sbuf","address":8192,"partitions":128,"ap":[[1,4]],"dtype":"float32"},"data1":{"space":"psum","address":0,"partitions":128,"ap":[[1,4]],"dtype":"float32"},"data2":"a[:,8:0:-2]","op":"multiply","loc":"other.py:7"}
{"i":"loop_end","engine":"sync"}
{"i":"isa","engine":"tensor","opcode":"LDWEIGHTS","srcs":[{"space":"sbuf","address":129536,"partitions":128,"ap":[[-1,64]],"dtype":"bfloat16"}],"rows":128,"columns":64,"fp32_mode":"low_high","transpose":true,"wait":[["Tensor",">=",1]]}
{"i":"isa","engine":"sync","opcode":"SOMETHING_NEW","function":"a,b","bytes":65536,"dma":{"queue":"qSyncDynamicHW","semaphore":25,"increment":16}}
{"i":"tensor_tensor","core":1,"dst":"d","data1":"d[0:64,::-1]","data2":"d","op":"subtract","dma":{"queue":"qSync","packets":[[0,1,512],[15,2,4096]],"semaphore":24,"increment":16}}
)";
